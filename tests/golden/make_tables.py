#!/usr/bin/env python3
"""Writes tests/golden/tables: the same four rows as Parquet, as an Arrow file and as an Arrow stream; types of other libraries;
and two rows as the library datasets saves them.

    python3 tests/golden/make_tables.py      (needs pyarrow and datasets; made with pyarrow 26.0 and datasets 5.2)
"""
import os
import shutil
import tempfile

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tables")
MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])


def chat(*contents):
    return [{"role": ["user", "assistant"][i % 2], "content": text} for i, text in enumerate(contents)]


TABLE = pa.table({
    "body": pa.array(["first row", 'quotes " and \\ and \n', None, "Größe 大 \U0001f600"], pa.large_string()),
    "messages": pa.array([chat("a", "b"), chat("c", "d", "e", "f"), chat("g", "h"), None], pa.list_(MESSAGE)),
    "input_ids": pa.array([[1, 2, 3], [], [255], [4, 5]], pa.list_(pa.int32())),
    "kind": pa.array(["x", "y", "x", "y"]).dictionary_encode(),
    "score": pa.array([0.5, 1.0, -2.25, 1e300]),
})

# Types that `datasets` and other libraries write: JSON values, views, bytes with text.
CONTENTS = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['"hi"', '[{"type":\n "text", "text": "a"}]'], pa.string()))
ROLES = pa.array(["user", "assistant"])
TYPES = pa.table({
    "messages": pa.ListArray.from_arrays([0, 2, 2], pa.StructArray.from_arrays([ROLES, CONTENTS], ["role", "content"])),
    "tools": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['[{"name": "f"}]', None], pa.string())),
    "input": pa.array(["a view of a string", None], pa.string_view()),
    "text": pa.array(["Größe \"1\"".encode(), b"two"], pa.binary()),
    "output": pa.array([b"one", None], pa.binary_view()),
})
# Parquet has no views of lists, and the third row has no text in UTF-8.
VIEWS = pa.table({
    "input_ids": pa.array([[1, 2], [], [3]], pa.list_view(pa.int32())),
    "labels": pa.array([[1, -100], None, [3]], pa.large_list_view(pa.int64())),
    "body": pa.array([b"one", None, b"\xff\xfe"], pa.binary()),
})
SAVED = [{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "text", "text": "b"}]}], "id": 1},
         {"messages": [{"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}], "id": 2}]

os.makedirs(FOLDER, exist_ok=True)
pq.write_table(TABLE, os.path.join(FOLDER, "rows.parquet"), row_group_size=2, compression="zstd", store_schema=False,
               write_statistics=False)
with pa.ipc.new_file(os.path.join(FOLDER, "rows.arrow"), TABLE.schema) as writer:
    writer.write_table(TABLE, max_chunksize=3)
with pa.ipc.new_stream(os.path.join(FOLDER, "stream.arrow"), TABLE.schema) as writer:
    writer.write_table(TABLE, max_chunksize=3)
pq.write_table(TYPES, os.path.join(FOLDER, "types.parquet"))
with pa.ipc.new_stream(os.path.join(FOLDER, "types.arrow"), TYPES.schema) as writer:
    writer.write_table(TYPES)
with pa.ipc.new_stream(os.path.join(FOLDER, "views.arrow"), VIEWS.schema) as writer:
    writer.write_table(VIEWS)
with tempfile.TemporaryDirectory() as top:
    saved = datasets.Dataset.from_list(SAVED, on_mixed_types="use_json")
    saved.save_to_disk(top)
    shutil.copy(os.path.join(top, "data-00000-of-00001.arrow"), os.path.join(FOLDER, "saved.arrow"))
    saved.to_parquet(os.path.join(FOLDER, "saved.parquet"))
