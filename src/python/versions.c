/* SPDX-License-Identifier: MIT */

#include "python/versions.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "base/timeutil.h"
#include "python/order.h"
#include "python/step.h"

#define ASK_TIMEOUT_USEC (20 * USEC_PER_SEC)
#define RETRY_USEC (60 * USEC_PER_SEC) /* a program that does not work is not asked with every call */

const char versions_mute_uv[] = "The program that is found as uv does not work, or is no uv. Install uv "
                                "anew where it is, or remove it there; UvPath= names one elsewhere.";

/* ---- Which programs they are ---- */

static int append_program(const char *path, Buffer *b) {
        struct stat st = {};

        if (*path && stat(path, &st) < 0)
                st = (struct stat){};
        return buffer_printf(b, "%s %ju %ju %jd.%ld\n", path, (uintmax_t) st.st_ino, (uintmax_t) st.st_size,
                             (intmax_t) st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

/* After an upgrade nothing that was learned of them holds. */
static int programs_keys(const WireHello *hello, char ret_interpreters[static SHA256_HEX_CHARS + 1],
                         char ret_uv[static SHA256_HEX_CHARS + 1]) {
        _cleanup_buffer_ Buffer interpreters = BUFFER_INIT(0), uv = BUFFER_INIT(0);
        int r = 0;

        for (size_t i = 0; i < hello->n_interpreters && i < INTERPRETERS_MAX && r >= 0; i++)
                r = append_program(hello->interpreters[i], &interpreters);
        if (r >= 0)
                r = append_program(hello->uv_on_host, &uv);
        if (r < 0)
                return r;
        sha256_hex(interpreters.data ?: "", interpreters.n_bytes, ret_interpreters);
        sha256_hex(uv.data, uv.n_bytes, ret_uv);
        return 0;
}

int versions_look(Python *p, const WireHello *hello) {
        char interpreters[SHA256_HEX_CHARS + 1], uv[SHA256_HEX_CHARS + 1];
        int r;

        assert(p && hello);

        r = programs_keys(hello, interpreters, uv);
        if (r < 0)
                return r;
        if (!streq(interpreters, p->interpreters_key)) {
                memcpy(p->interpreters_key, interpreters, sizeof(interpreters));
                memset(p->versions, 0, sizeof(p->versions));
                p->versions_asked_usec = 0;
        }
        if (!streq(uv, p->uv_key)) {
                memcpy(p->uv_key, uv, sizeof(uv));
                memset(p->uv_version, 0, sizeof(p->uv_version));
                p->is_uv_mute = false;
                p->versions_asked_usec = 0;
        }
        return 0;
}

static bool versions_are_known(const Python *p, const WireHello *hello) {
        for (size_t i = 0; i < hello->n_interpreters && i < INTERPRETERS_MAX; i++)
                if (*hello->interpreters[i] && !*p->versions[i])
                        return false;
        return !*hello->uv || *p->uv_version;
}

/* ---- Asking ---- */

static void versions_take(Python *p, const JsonValue *answer) {
        char versions[INTERPRETERS_MAX][VERSION_CHARS_MAX + 1] = {}, uv[VERSION_CHARS_MAX + 1] = "";
        const WireHello *hello = python_hello(p);

        /* Of other programs by now: what was said is not about them. */
        if (!hello || versions_look(p, hello) < 0 || p->versions_asked_usec == 0)
                return;
        if (answer_read_versions(answer, versions, uv) < 0)
                return;
        for (size_t i = 0; i < INTERPRETERS_MAX; i++)
                if (*versions[i])
                        memcpy(p->versions[i], versions[i], sizeof(versions[i]));
        if (*uv)
                memcpy(p->uv_version, uv, sizeof(uv));
        p->is_uv_mute = !*p->uv_version;
}

static void versions_on_done(const StepOutcome *outcome, void *userdata) {
        Python *p = userdata;

        if (outcome->answer)
                versions_take(p, outcome->answer);
        p->versions_step = step_free(p->versions_step);
        query_tell_versions(p);
        python_update_soon(p);
}

static int versions_start(Python *p, const WireHello *hello) {
        _cleanup_buffer_ Buffer order = BUFFER_INIT(0);
        int r;

        r = order_write_versions(hello, (const char(*)[VERSION_CHARS_MAX + 1]) p->versions, &order);
        if (r < 0)
                return r;
        return step_new(
                &(const StepParameters){
                        .python = p,
                        .profile = WIRE_PROFILE_PARSE,
                        .program = "versions.py",
                        .order = order.data,
                        .order_bytes = order.n_bytes,
                        .timeout_usec = ASK_TIMEOUT_USEC,
                        .on_done = versions_on_done,
                        .userdata = p,
                },
                &p->versions_step);
}

bool versions_ask(Python *p) {
        const WireHello *hello;
        uint64_t now;

        assert(p);

        hello = python_hello(p);
        if (!hello || hello->verdict != WIRE_VERDICT_OK || versions_look(p, hello) < 0)
                return false;
        if (p->versions_step)
                return true;
        now = now_monotonic_usec();
        if (versions_are_known(p, hello) ||
            (p->versions_asked_usec > 0 && now < p->versions_asked_usec + RETRY_USEC))
                return false;
        p->versions_asked_usec = now;
        return versions_start(p, hello) >= 0;
}

const char* versions_find_problem(Python *p, const WireHello *hello) {
        assert(p && hello);

        return versions_look(p, hello) >= 0 && p->is_uv_mute ? versions_mute_uv : NULL;
}

void versions_leave(Python *p) {
        assert(p);

        if (!p->versions_step)
                return;
        p->versions_step = step_free(p->versions_step);
        p->versions_asked_usec = 0;
}
