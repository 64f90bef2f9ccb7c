/* atomics.h - all atomic operations of the engine, and what the hardware wants.
 *
 * Every operation names its order: seer_load(&x, acquire). Each acquire or release carries a
 * label in a comment where it stands, and names its partner. No fences are used: gcc's
 * ThreadSanitizer does not model them. Built with SEER_RELACY the same headers run under the
 * relacy model checker. */
#ifndef SEER_ATOMICS_H
#define SEER_ATOMICS_H

#define SEER_APART 128 /* bytes: what different workers write is this far apart (two lines: the
                          adjacent-line prefetcher moves pairs) */

#if defined(SEER_RELACY)
#define SEER_ATOMIC(T) rl::atomic<T>
#define seer_load(p, order) (p)->load(rl::mo_##order, $)
#define seer_store(p, v, order) (p)->store((v), rl::mo_##order, $)
#define seer_add(p, v, order) (p)->fetch_add((v), rl::mo_##order, $)
#define seer_exchange(p, v, order) (p)->exchange((v), rl::mo_##order, $)
#define seer_cas(p, expected, v, order, failure)                                                  \
    (p)->compare_exchange_strong(*(expected), (v), rl::mo_##order, $, rl::mo_##failure, $)
#else
#include <stdatomic.h>
#ifdef SEER_SLOW
void seer_slow(void); /* tests: holds the thread up now and then, so that others overtake it */
#else
#define seer_slow() ((void)0)
#endif
#define SEER_ATOMIC(T) _Atomic(T)
#define seer_load(p, order) (seer_slow(), atomic_load_explicit((p), memory_order_##order))
#define seer_store(p, v, order) (seer_slow(), atomic_store_explicit((p), (v), memory_order_##order))
#define seer_add(p, v, order) (seer_slow(), atomic_fetch_add_explicit((p), (v), memory_order_##order))
#define seer_exchange(p, v, order) (seer_slow(), atomic_exchange_explicit((p), (v), memory_order_##order))
#define seer_cas(p, expected, v, order, failure)                                                  \
    (seer_slow(), atomic_compare_exchange_strong_explicit((p), (expected), (v),                   \
                                                          memory_order_##order,                   \
                                                          memory_order_##failure))
#endif

#if defined(__x86_64__) || defined(__i386__)
#define seer_pause() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define seer_pause() __asm__ volatile("yield")
#else
#define seer_pause() ((void)0)
#endif

/* Adds to a counter that one thread writes and others may read meanwhile. */
#define seer_count(p, n)                                                                          \
    __atomic_store_n((p), __atomic_load_n((p), __ATOMIC_RELAXED) + (n), __ATOMIC_RELAXED)
#define seer_counted(p) __atomic_load_n((p), __ATOMIC_RELAXED)

#define seer_likely(x) __builtin_expect(!!(x), 1)
#define seer_unlikely(x) __builtin_expect(!!(x), 0)
#define seer_prefetch(p) __builtin_prefetch((p), 1)

#endif
