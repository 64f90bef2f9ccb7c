/* rng.h - counter-based random numbers: draw n of an entity is a function of the world's key.
 *
 * The mixer is the finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014; constants of
 * variant 13 by D. Stafford). */
#ifndef SEER_RNG_H
#define SEER_RNG_H

#include <stdint.h>

static inline uint64_t seer_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline uint64_t seer_mix_key(uint64_t seed, uint64_t episode)
{
    return seer_mix(seer_mix(seed + UINT64_C(0x9E3779B97F4A7C15)) +
                    (episode + 1) * UINT64_C(0xD1B54A32D192ED03));
}

static inline uint64_t seer_mix_draw(uint64_t key, uint32_t entity, uint64_t n)
{
    return seer_mix(seer_mix(key + ((uint64_t)entity + 1) * UINT64_C(0x8CB92BA72F3D8DD7)) +
                    (n + 1) * UINT64_C(0x9E3779B97F4A7C15));
}

#endif
