/* mix_acts.h - the operations through which the entities of mix.h act. */
#ifndef SEER_MIX_ACTS_H
#define SEER_MIX_ACTS_H

#include "mix.h"

typedef struct acts acts;
struct acts {
    uint64_t (*bits)(acts *);
    int (*send)(acts *, uint32_t kind, uint32_t to, int64_t ticks, const uint64_t payload[5]);
    const mix_options *options;
    void *behind; /* seer_ctx or oracle */
    uint32_t self, round;
    int64_t now;
    uint8_t *alive; /* of self */
    uint64_t *hash, *shown;
    const uint64_t *shown_seen; /* of all */
};

int mix_on_event(acts *a, const seer_event *event, const uint64_t *payload);
int mix_on_sweep(acts *a, uint32_t sweep);
void mix_make_columns(const mix_options *options, mix_columns *columns);

#endif
