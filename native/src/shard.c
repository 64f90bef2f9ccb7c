#include "shard.h"

void seer_shard_look_far(seer_shard *shard)
{
    uint32_t i = shard->far;
    shard->far = SEER_NONE;
    shard->far_min = UINT64_MAX;
    while (i != SEER_NONE) {
        uint32_t next = shard->links[i].next;
        seer_lane *lane = &shard->lanes[i];
        seer_shard_list(shard, i, lane, seer_bucket(shard->buckets, lane->head.time));
        i = next;
    }
}
