#include "../include/seer.h"

const char *seer_strerror(int code)
{
    static const char *const text[SEER_ECOUNT] = {
        [SEER_OK] = "no error",
        [SEER_ENOMEM] = "memory could not be had",
        [SEER_EINVAL] = "a description or an argument is not legal",
        [SEER_EBUSY] = "the engine is already stepping",
        [SEER_EFORKED] = "the process was forked while this engine was stepping",
        [SEER_ESTATE] = "only reset and close are legal now",
        [SEER_EHANDLER] = "a handler failed",
        [SEER_EFAIL] = "the model reported a failure",
        [SEER_ECAUSALITY] = "an event was sent to another entity sooner than the lookahead",
        [SEER_EPAST] = "an event was sent into the past",
        [SEER_ETIME] = "a delay is not finite, or too long",
        [SEER_ETARGET] = "an event was sent to an entity that does not exist",
        [SEER_EKIND] = "an event has a kind that does not exist, or the wrong payload for it",
        [SEER_ELANE] = "an entity has more pending events than its lane's capacity",
        [SEER_EWORLD] = "a world has more pending events than its capacity",
        [SEER_ESTEP] = "a step handled more events than its capacity",
        [SEER_EROUNDS] = "too many rounds at one instant",
        [SEER_ESEQUENCE] = "an entity sent too many events in one episode",
    };
    if (code < 0) code = -code;
    return code < SEER_ECOUNT && text[code] ? text[code] : "unknown error";
}
