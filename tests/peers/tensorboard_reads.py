"""tensorboard_reads.py - what TensorBoard itself finds in event files of cspeed.

tensorboard_reads.py FOLDER prints "TAG STEP VALUE" for every scalar, in order, as TensorBoard would draw them: of runs
that were resumed, the steps that a later one repeated are its own. tensorboard_reads.py --bytes prints the frames that
TensorBoard's own writer makes of the events in test_monitor.c."""
import io
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter


def show(name, **fields):
    file = io.BytesIO()
    RecordWriter(file).write(event_pb2.Event(wall_time=1.5e9, **fields).SerializeToString())
    print(name, len(file.getvalue()), file.getvalue().hex())


def scalar(tag, value):
    return summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, simple_value=value)])


if sys.argv[1] == "--bytes":
    show("version", file_version="brain.Event:2")
    show("start", step=300, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START))
    show("scalar", step=300, summary=scalar("Train/Samples/lr", 0.001))
    show("zero", step=8, summary=scalar("t", 0))
else:
    events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
    events.Reload()
    for tag in events.Tags()["scalars"]:
        for event in events.Scalars(tag):
            print(tag, event.step, f"{event.value:.9g}")
