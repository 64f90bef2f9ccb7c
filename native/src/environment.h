/* environment.h - the floating-point environment that handlers run in: round to nearest, denormals
 * kept, whatever the caller's libraries have set. */
#ifndef SEER_ENVIRONMENT_H
#define SEER_ENVIRONMENT_H

#if defined(__x86_64__)
#include <xmmintrin.h>
typedef unsigned seer_environment;
static inline seer_environment seer_environment_enter(void)
{
    seer_environment outer = _mm_getcsr();
    if ((outer & 0xffc0u) != 0x1f80u) _mm_setcsr(0x1f80u); /* the default, flags apart */
    return outer;
}
static inline void seer_environment_leave(seer_environment outer)
{
    if ((outer & 0xffc0u) != 0x1f80u) _mm_setcsr(outer);
}
#else
#include <fenv.h>
typedef fenv_t seer_environment;
static inline seer_environment seer_environment_enter(void)
{
    seer_environment outer;
    fegetenv(&outer);
    fesetenv(FE_DFL_ENV);
    return outer;
}
static inline void seer_environment_leave(seer_environment outer)
{
    fesetenv(&outer);
}
#endif

#endif
