/* SPDX-License-Identifier: MIT */

/* What scripts, programs in units and sets may say to the room that prepares packages. First byte: who
 * speaks. */

#include "base/strv.h"
#include "fuzz.h"
#include "python/answer.h"
#include "python/block.h"

#define JOURNAL_CHARACTERS \
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-_ ,()"

static void check_script(const char *text, size_t n_bytes) {
        _cleanup_buffer_ Buffer once = BUFFER_INIT(0), twice = BUFFER_INIT(0);

        FUZZ_CHECK(block_reduce(text, n_bytes, &once) == 0);
        FUZZ_CHECK(once.n_bytes <= n_bytes);
        FUZZ_CHECK(block_reduce(once.data ?: "", once.n_bytes, &twice) == 0);
        FUZZ_CHECK(once.n_bytes == twice.n_bytes &&
                   memcmp(once.data ?: "", twice.data ?: "", once.n_bytes) == 0);
        /* What opens a block is kept. */
        FUZZ_CHECK(python_has_block(text, n_bytes) == python_has_block(once.data ?: "", once.n_bytes));
}

/* A requirement is one line of plain ASCII that is no option. */
static void check_requirements(char *const *l, const GrammarPolicy *policy) {
        STRV_FOREACH(s, l) {
                FUZZ_CHECK(grammar_is_requirement(*s, policy));
                FUZZ_CHECK(**s != '-' && !strpbrk(*s, "\\$'`\n\r\t") && strlen(*s) <= REQUIREMENT_BYTES_MAX);
        }
}

static void check_answer(const char *text, size_t n_bytes) {
        const GrammarPolicy policy = { .allows_urls = n_bytes % 2, .allows_vcs = n_bytes % 3 == 0 };
        _cleanup_(parsed_unrefp) Parsed *parsed = NULL;
        _cleanup_(fetched_done) Fetched fetched = {};
        _cleanup_json_ JsonValue *v = NULL, *tool_uv = NULL;
        _cleanup_buffer_ Buffer hosts = BUFFER_INIT(0);
        const char *kind, *message;
        int r;

        if (json_parse(text, n_bytes, &v) != 0)
                return;
        r = answer_read_error(v, &kind, &message);
        FUZZ_CHECK(r == 0 || r == -EBADMSG || (r == 1 && grammar_is_line(message, strlen(message), 4000)));
        if (answer_read_internal_hosts(v, &hosts) == 1)
                FUZZ_CHECK(strspn(hosts.data, JOURNAL_CHARACTERS) == hosts.n_bytes);
        r = answer_read_fetch(v, &fetched);
        FUZZ_CHECK(r == -EBADMSG || (r == 0 && strlen(fetched.lock) == SHA256_HEX_CHARS));
        r = answer_read_parse(v, &policy, &parsed);
        FUZZ_CHECK(r == 0 || r == -EBADMSG);
        if (r < 0)
                return;
        check_requirements(parsed->requirements, &policy);
        FUZZ_CHECK(json_parse(parsed->tool_uv, strlen(parsed->tool_uv), &tool_uv) == 0);
        FUZZ_CHECK(!parsed->is_valid || parsed->interpreter >= 0);
        FUZZ_CHECK(parsed->interpreter < INTERPRETERS_MAX);
}

static void check_set(const char *text, size_t n_bytes) {
        _cleanup_(set_facts_done) SetFacts facts = {};
        char name[SHA256_HEX_CHARS + 1];
        int r;

        r = answer_read_set(text, n_bytes, &facts);
        FUZZ_CHECK(r == 0 || r == -EBADMSG);
        if (r == 0)
                FUZZ_CHECK(set_name(facts.python, facts.set.interpreter_version, facts.lock, name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        _cleanup_buffer_ Buffer text = BUFFER_INIT(0);
        uint8_t who = fuzz_byte(&data, &n_bytes);

        FUZZ_CHECK(buffer_append(&text, data, n_bytes) == 0);
        if (who % 3 == 0)
                check_script(text.data ?: "", n_bytes);
        else if (who % 3 == 1)
                check_answer(text.data ?: "", n_bytes);
        else
                check_set(text.data ?: "", n_bytes);
        return 0;
}
