/* SPDX-License-Identifier: MIT */
#pragma once

/* Orders: what the programs in the units get on their stdin (runner/prepare/README.md). All return 0 or
 * -errno. */

#include "base/buffer.h"
#include "base/settings.h"
#include "exec/exec.h"
#include "python/answer.h"

typedef struct ParseOrder {
        const char *script;
        size_t script_bytes;
        char *const *dependencies;
        const unsigned *lines; /* of the dependencies; may be NULL */
        const char *python_version; /* may be NULL */
        bool wants_syntax;
        const WireHello *hello; /* the interpreters */
        const char (*versions)[VERSION_CHARS_MAX + 1]; /* of them; "": PARSE asks. NULL: asks for all */
        const Settings *settings;
} ParseOrder;

int order_write_parse(const ParseOrder *o, Buffer *b);

/* For versions.py: those that are not known. */
int order_write_versions(const WireHello *hello, const char (*known)[VERSION_CHARS_MAX + 1], Buffer *b);

typedef struct SetOrder {
        const char *uv, *python; /* paths in the unit */
        const char *uv_on_host; /* what people know it as; NULL: the same */
        char *const *requirements; /* may be NULL: a set of nothing but an interpreter */
        const char *tool_uv; /* JSON */
        char *const *known_locks;
        const char *lock; /* INSTALL */
        uint64_t budget_usec;
        const Settings *settings;
} SetOrder;

int order_write_fetch(const SetOrder *o, Buffer *b);
int order_write_install(const SetOrder *o, Buffer *b);

/* Everything but the interpreter that decides what FETCH finds: part of the key by which its results are
 * remembered. */
int order_write_key(const SetOrder *o, Buffer *b);
