/* order.cc - the happens-before order of operations in streams, by vector clocks.
 *
 * The clock of a stream is the number of operations of every stream that precede the next operation put into it. An
 * event keeps the clock that its stream had when the event was recorded. A stream that waits for an event merges the
 * event's clock into its own clock. A host that waits for a stream or an event merges the clock of the stream or event
 * into the host's clock. An operation that the host puts into a stream comes after all operations that the host has
 * waited for. For operations outside a graph, all nodes of the graph count as one operation. The nodes of one graph are
 * ordered by the graph's edges. */
#include "shadow.h"

#include <string>

struct operation {
    shadow_span first;
    unsigned stream;
    uint64_t position; /* index in its stream, from 1 */
    size_t node;       /* index in its graph */
    const char *name;
};

emulator_clock emulator_host_clock;

static std::vector<operation> operations;

/* The running operation. */
static struct {
    operation what;
    emulator_clock clock;
    const std::vector<bool> *before; /* for a node of a graph: the nodes that precede it */
} now;

void emulator_join(emulator_clock &into, const emulator_clock &from)
{
    if (into.size() < from.size())
        into.resize(from.size());
    for (size_t i = 0; i < from.size(); i++)
        into[i] = std::max(into[i], from[i]);
}

std::function<void()> emulator_ordered(emulator_stream &queue, std::function<void()> item)
{
    if (!shadow_on)
        return item;
    emulator_join(queue.clock, emulator_host_clock);
    queue.clock.resize(std::max(queue.clock.size(), (size_t)queue.number + 1));
    uint64_t position = ++queue.clock[queue.number];
    return [number = queue.number, position, clock = queue.clock, item = std::move(item)] {
        /* The operation that is interrupted: it waits for this stream or for another process. */
        auto outer = now;
        now = { { 0, number, position, 0, "" }, clock, nullptr };
        shadow_operation();
        item();
        now = outer;
    };
}

void emulator_order_node(size_t node, const std::vector<bool> *before)
{
    if (!shadow_on)
        return;
    now.what.node = node;
    now.before = before;
    shadow_operation();
}

void order_begin(shadow_span first)
{
    now.what.first = first;
    operations.push_back(now.what);
}

void order_name(const char *name)
{
    static std::set<std::string> names;
    if (!operations.empty())
        operations.back().name = names.insert(name).first->c_str();
}

/* Returns the operation to which a span (shadow.h) belongs. */
static const operation &of_span(shadow_span span)
{
    auto after = std::upper_bound(operations.begin(), operations.end(), span,
                                  [](shadow_span s, const operation &o) { return s < o.first; });
    return *--after;
}

bool order_is_before(shadow_span span)
{
    const operation &then = of_span(span);
    if (then.stream == now.what.stream && then.position == now.what.position)
        return !now.before || then.node == now.what.node || (*now.before)[then.node];
    return then.stream < now.clock.size() && now.clock[then.stream] >= then.position;
}

const char *order_describe(shadow_span span)
{
    static char text[512];
    const operation &it = of_span(span);
    snprintf(text, sizeof text, "%s in stream %u", it.name, it.stream);
    return text;
}
