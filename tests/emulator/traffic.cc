/* traffic.cc - counts the device memory traffic of every kernel, copy and matrix product. */
#include "shadow.h"

#include <map>
#include <string>

traffic_counts traffic_now[2];

static std::map<std::string, emulator_traffic> by_name;
static std::vector<emulator_traffic> listed;
static const std::string *name_now;

static void add(emulator_moved *to, const traffic_counts &from)
{
    to->requested += from.requested;
    to->distinct += from.distinct;
    to->sectors += from.sectors;
}

static void finish()
{
    if (name_now) {
        emulator_traffic &row = by_name[*name_now];
        row.name = name_now->c_str();
        row.runs++;
        add(&row.read, traffic_now[0]);
        add(&row.written, traffic_now[1]);
    }
    traffic_now[0] = traffic_now[1] = {};
    name_now = nullptr;
}

void traffic_begin()
{
    finish();
}

void traffic_name(const char *name)
{
    static std::set<std::string> names;
    name_now = &*names.insert(name).first;
}

int emulator_traffic_rows(const emulator_traffic **rows)
{
    emulator_guard guard(emulator_lock);
    finish();
    listed.clear();
    for (const auto &entry : by_name)
        listed.push_back(entry.second);
    *rows = listed.data();
    return (int)listed.size();
}

void emulator_traffic_clear(void)
{
    emulator_guard guard(emulator_lock);
    finish();
    by_name.clear();
}
