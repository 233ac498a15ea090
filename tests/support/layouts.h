/* layouts.h - training runs of tiny models of all families, on any number of lanes and of ranks of a lane (tensor
 * parallelism), for tests that compare layouts with one rank. */
#ifndef CS_TESTS_LAYOUTS_H
#define CS_TESTS_LAYOUTS_H

#include "runs.h"

enum {
    LAYOUT_STEPS = 20,
    LAYOUT_RANKS = 8,
    LAYOUT_PARAMS = 128,
    LAYOUT_ELEMENTS = 1 << 16,
    LAYOUT_SAMPLES = 4, /* samples of a step */
    LAYOUT_TOKENS = 6,  /* generated tokens */
    LAYOUT_LOGITS = RUN_LENGTH * RUN_VOCABULARY
};

/* A tiny model whose sizes are hard to divide. */
typedef struct {
    const char *name;
    const char *model;   /* config.json without its last brace */
    const char *dropout; /* further members of config.json that turn dropout on; NULL: the family has none */
    const char *set;     /* a further assignment for cs_config_set; NULL: none */
} layout_model;

/* The models of all families, and variants of some. */
extern const layout_model layout_models[];
extern const int layout_model_count;

typedef struct {
    const layout_model *model;
    int tp, lanes, stage, accumulation, steps;
    const char *precision;
    bool dropout; /* the model's dropout, with a probability of 0.1 */
    /* each sample has several documents, whose tokens do not attend to each other; some samples, and a third of the tokens
     * of the others, have no target */
    bool documents;
    bool pairs; /* preference training: samples are pairs of answers */
    bool recompute;
    bool sequence;         /* sequence parallelism (cspeed.mesh.sequence) */
    int overflow;          /* fp16: in step number `overflow`, from 1 on, one gradient of the last rank is infinite */
    const char *fp16;      /* the object of the key "fp16"; NULL: dynamic loss scaling as it is by default */
    bool overlap;          /* exchanges beside products (tp_overlap_comm), also where that is not faster */
    int host;              /* ranks of each simulated host; 0: all ranks are on one host */
    const char *optimizer; /* the object of the key "optimizer"; NULL: SGD */
} layout_spec;

/* The values of all parameters, one parameter after another, whole and in the order of the model. */
typedef struct {
    uint32_t bits[LAYOUT_ELEMENTS]; /* of fp32 values; all bits are set where a rank holds no element */
} layout_image;

typedef struct {
    double loss[LAYOUT_RANKS][LAYOUT_STEPS], norm[LAYOUT_RANKS][LAYOUT_STEPS], scale[LAYOUT_RANKS][LAYOUT_STEPS];
    int params;
    struct {
        char name[96];
        int64_t first, count; /* the parameter's place in an image */
    } param[LAYOUT_PARAMS];
    int64_t elements;
    /* what each rank holds at the start, after the first step and at the end; only in fp32 */
    layout_image start[LAYOUT_RANKS], first[LAYOUT_RANKS], end[LAYOUT_RANKS];
    float logits[LAYOUT_RANKS][LAYOUT_LOGITS];   /* those of a batch after the last step */
    int32_t tokens[LAYOUT_RANKS][LAYOUT_TOKENS]; /* the most probable text after the last step */
    int64_t experts[LAYOUT_RANKS];               /* tokens of all experts of all layers in the last step */
    /* the reward of chosen answers minus that of rejected ones, in preference training */
    double margin[LAYOUT_RANKS][LAYOUT_STEPS];
    int64_t tokens_of_step[LAYOUT_RANKS]; /* by the metric tokens_per_second */
    int64_t targets[LAYOUT_RANKS];        /* tokens with a target, in all steps */
    cs_memory memory[LAYOUT_RANKS];       /* the plan */
    bool overlaps;                        /* exchanges run beside products */
    /* bytes that the second step has sent: all of them, and those to the ranks of the lane */
    uint64_t sent[LAYOUT_RANKS], sent_tp[LAYOUT_RANKS];
    /* memory for activations and optimizer state, without the kernels' workspace, after the first and the last step */
    size_t held[LAYOUT_RANKS], held_at_end[LAYOUT_RANKS];
} layout_result;

/* Trains on spec->lanes * spec->tp ranks. The samples of a step do not depend on the layout. Fails the test after any
 * error. The caller frees the result with layout_free. */
layout_result *layout_run(const layout_spec *spec);
void layout_free(layout_result *result);

/* Sets *whole to the image of all ranks together. Fails the test if an element is missing, or if two ranks hold
 * different bits of it. */
void layout_merge(layout_image *whole, const layout_result *result, const layout_image *images, int ranks,
                  const char *what);

#endif
