#include "shard.h"

void seer_shard_look_far(seer_shard *shard, uint32_t *ids)
{
    uint32_t n = seer_shard_gather(shard, SEER_SLOT_FAR, ids);
    shard->far_min = UINT64_MAX;
    for (uint32_t k = 0; k < n; k++) {
        seer_lane *lane = &shard->lanes[ids[k]];
        seer_shard_list(shard, ids[k], lane, seer_bucket(shard->buckets, lane->head.time));
    }
}
