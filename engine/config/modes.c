/* modes.c - the key tables of the classic modes of data parallelism, cspeed.ps (parameter servers) and cspeed.dp
 * (DataParallel), and their resolution. */
#include "base/plural.h"
#include "config/resolve.h"
#include "config/rows.h"

static const ce_key ps[] = {
    SUPPORTED("servers", INT, ps.servers, "1", 1, MAX_EXACT, NULL,
              "how many ranks, the last ones, are servers, each with a part of every unit's parameters; the others are "
              "workers"),
    SUPPORTED("async", BOOL, ps.async, "false", 0, 0, NULL,
              "a server applies each worker's gradients when they come, instead of the sum of all workers'; two runs "
              "then differ"),
    SUPPORTED("staleness", INT, ps.staleness, "0", 0, 1000, NULL,
              "with async: how many steps a worker may be ahead of the slowest worker when it begins a step"),
};

static const ce_key dp[] = {
    SUPPORTED("threads", INT, dp.threads, "2", 1, 256, NULL,
              "how many replicas of the model one process trains, each in a thread; the first is the master"),
};

const ce_section ce_modes_sections[] = {
    { "cspeed.ps", CS_KEYS(ps) },
    { "cspeed.dp", CS_KEYS(dp) },
};
const int ce_modes_section_count = sizeof ce_modes_sections / sizeof *ce_modes_sections;

static const char *const names[] = { [CS_MODE_ZERO] = "zero", [CS_MODE_DP] = "dp", [CS_MODE_PS] = "ps" };

static void refuse(cs_config *config, bool given, const char *path, const char *why)
{
    if (given)
        ce_json_fault(config->doc, path, "not supported: with cspeed.mode \"%s\", because %s",
                      names[config->settings.mode], why);
}

/* Reports an error if the section of a mode has other values than the defaults while another mode is chosen. */
static void check_section(cs_config *config, int mode, const char *path, bool changed)
{
    if (config->settings.mode != mode && changed)
        ce_json_fault(config->doc, path, "has no effect without cspeed.mode \"%s\"", names[mode]);
}

static void check_servers(cs_config *config)
{
    const ce_settings *s = &config->settings;
    if (s->ps.servers >= config->world.size)
        ce_json_fault(config->doc, "cspeed.ps.servers",
                      "with %lld server%s, a world of %d has no rank left for a worker: start at least %lld ranks",
                      (long long)s->ps.servers, ce_plural(s->ps.servers), config->world.size,
                      (long long)s->ps.servers + 1);
}

void ce_modes_count_lanes(cs_config *config)
{
    ce_settings *s = &config->settings;
    check_section(config, CS_MODE_PS, "cspeed.ps", s->ps.servers != 1 || s->ps.async);
    check_section(config, CS_MODE_DP, "cspeed.dp", s->dp.threads != 2);
    if (s->ps.staleness > 0 && !s->ps.async)
        ce_json_fault(config->doc, "cspeed.ps.staleness",
                      "has no effect without cspeed.ps.async: synchronous workers are never ahead of each other");
    s->lanes = config->world.size;
    if (s->mode == CS_MODE_PS) {
        check_servers(config);
        s->lanes = s->ps.servers < config->world.size ? config->world.size - (int)s->ps.servers : 1;
    } else if (s->mode == CS_MODE_DP) {
        refuse(config, config->world.size > 1, "cspeed.mode",
               "it is one process, and this job has several ranks: start it with --num_gpus 1");
        s->lanes = (int)s->dp.threads;
    }
}

/* Refuses settings that asynchronous workers cannot support, because a worker decides about its step without knowing
 * the other workers. */
static void check_async(cs_config *config)
{
    const ce_settings *s = &config->settings;
    static const char path[] = "cspeed.ps.async";
    if (s->mode != CS_MODE_PS || !s->ps.async)
        return;
    refuse(config, s->gradient_clipping > 0, path,
           "gradient_clipping needs the norm over all servers: set \"gradient_clipping\": 0");
    refuse(config, s->gradient_sum, path, "gradients of several workers are not summed");
    refuse(config, s->async_save, path, "cspeed.async_save counts steps that all ranks have done together");
    refuse(config, s->curriculum.kind != CS_DIFFICULTY_NONE, path,
           "the length of a sample follows from a step that all workers do together (curriculum_learning)");
    refuse(config, s->fit_seconds > 0, "cspeed.fit_seconds", "workers do not end their steps together");
    refuse(config, s->trace.file, "cspeed.trace.file", "workers do not end their steps together");
}

void ce_modes_resolve(cs_config *config)
{
    ce_settings *s = &config->settings;
    const ce_precision *types = &s->precision;
    if (s->mode == CS_MODE_ZERO)
        return;
    refuse(config, s->stage > 0, s->written.strategy ? "cspeed.fsdp.sharding_strategy" : "zero_optimization.stage",
           s->mode == CS_MODE_PS ? "the servers hold the optimizer state: leave this out"
                                 : "the master holds the optimizer state: leave this out");
    refuse(config, s->device == CS_CHOOSE_CUDA, "cspeed.device", "it is for CPUs");
    refuse(config, types->scaled, "cspeed.mode", "there is no loss scaling (fp16, amp, torch_autocast with float16)");
    refuse(config, types->wide_norms, "cspeed.mode", "norms and other parameters have one type (amp)");
    refuse(config, types->sums != CS_F32 || types->wire != CS_F32, "communication_data_type",
           "gradients are added and sent in fp32");
    refuse(config, s->elasticity.enabled, "elasticity.enabled", "the number of ranks is fixed");
    refuse(config, s->lora.r > 0 || s->lora.adapter, "cspeed.lora", "all parameters are trained");
    refuse(config, s->preference.beta > 0, "cspeed.dpo", "the reference model is computed by all ranks");
    for (int i = 0; i < s->groups.count; i++)
        refuse(config, s->groups.group[i].optimizer.directs, "optimizer.type",
               "the step of Lamb and Muon needs whole tensors");
    refuse(config, s->mode == CS_MODE_DP && s->trace.file, "cspeed.trace.file", "a process records one replica only");
    check_async(config);
}
