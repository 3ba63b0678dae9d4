/* SPDX-License-Identifier: MIT */

/* Collecting and printing the items of a check. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "json/json.h"
#include "server/check-report.h"
#include "tool/clean.h"

static const char *const verdict_texts[_CHECK_MAX] = {
        [CHECK_OK] = "ok",
        [CHECK_WARN] = "warn",
        [CHECK_FAIL] = "FAIL",
};

void check_report_done(CheckReport *r) {
        assert(r);

        for (size_t i = 0; i < r->n_items; i++) {
                free(r->items[i].detail);
                free(r->items[i].remedy);
        }
        free(r->items);
        *r = (CheckReport) {};
}

void check_add(CheckReport *r, CheckVerdict verdict, const char *name, const char *remedy,
               const char *format, ...) {
        CheckItem item = { .verdict = verdict, .name = name }, *items = NULL;
        _cleanup_free_ char *detail = NULL;
        va_list ap;
        int n;

        assert(r);
        assert(name);
        assert(format);

        va_start(ap, format);
        n = vasprintf(&detail, format, ap);
        va_end(ap);
        if (n < 0)
                detail = NULL;
        else
                items = reallocarray(r->items, r->n_items + 1, sizeof(*items));
        if (items)
                r->items = items;
        if (!items || clean_copy(detail, SIZE_MAX, &item.detail) < 0 ||
            clean_copy(remedy, SIZE_MAX, &item.remedy) < 0) {
                free(item.detail);
                check_report_break(r, -ENOMEM);
                return;
        }
        items[r->n_items++] = item;
}

static CheckItem* find_item(const CheckReport *r, const char *name) {
        for (size_t i = 0; i < r->n_items; i++)
                if (streq(r->items[i].name, name))
                        return &r->items[i];
        return NULL;
}

const char* check_remedy_of(const CheckReport *r, const char *name) {
        const CheckItem *item;

        assert(r);
        assert(name);

        item = find_item(r, name);
        return item ? item->remedy : NULL;
}

void check_set_remedy(CheckReport *r, const char *name, const char *remedy) {
        CheckItem *item;

        assert(r);
        assert(name);

        item = find_item(r, name);
        if (!item)
                return;
        free(TAKE_PTR(item->remedy));
        if (clean_copy(remedy, SIZE_MAX, &item->remedy) < 0)
                check_report_break(r, -ENOMEM);
}

void check_report_break(CheckReport *r, int error) {
        assert(r);
        assert(error < 0);

        if (r->error >= 0)
                r->error = error;
}

bool check_report_has_failed(const CheckReport *r) {
        assert(r);

        for (size_t i = 0; i < r->n_items; i++)
                if (r->items[i].verdict == CHECK_FAIL)
                        return true;
        return r->error < 0;
}

/* ---- Printing ---- */

/* The last item of a report that is not complete. It takes no memory. */
static CheckItem broken_item(const CheckReport *r, char *buffer, size_t n_bytes) {
        static char remedy[] = "Repair that (this is not yet what mcp-exec needs), then check again.";

        (void) snprintf(buffer, n_bytes, "could not be finished: %s", strerrordesc_np(-r->error) ?: "error");
        return (CheckItem) { .verdict = CHECK_FAIL, .name = "check", .detail = buffer, .remedy = remedy };
}

static void print_item(const CheckItem *item) {
        printf("%-4s  %-12s  %s\n", verdict_texts[item->verdict], item->name, item->detail);
        if (item->remedy)
                printf("%-4s  %-12s  -> %s\n", "", "", item->remedy);
}

static int flush(void) {
        errno = 0;
        if (fflush(stdout) == 0 && !ferror(stdout))
                return 0;
        return errno > 0 ? -errno : -EIO;
}

int check_report_print_text(const CheckReport *r) {
        assert(r);

        for (size_t i = 0; i < r->n_items; i++)
                print_item(&r->items[i]);
        if (r->error < 0) {
                char text[160];
                CheckItem item = broken_item(r, text, sizeof(text));

                print_item(&item);
        }
        return flush();
}

static void write_item(JsonWriter *w, const CheckItem *item) {
        json_begin_object(w);
        json_key(w, "name");
        json_string(w, item->name);
        json_key(w, "verdict");
        json_string(w, item->verdict == CHECK_FAIL ? "fail" : verdict_texts[item->verdict]);
        json_key(w, "detail");
        json_string(w, item->detail);
        json_key(w, "remedy");
        json_string(w, item->remedy);
        json_end_object(w);
}

int check_report_print_json(const CheckReport *r) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        int error;

        assert(r);

        json_begin_array(&w);
        for (size_t i = 0; i < r->n_items; i++)
                write_item(&w, &r->items[i]);
        if (r->error < 0) {
                char text[160];
                CheckItem item = broken_item(r, text, sizeof(text));

                write_item(&w, &item);
        }
        json_end_array(&w);
        error = json_writer_finish(&w);
        if (error < 0)
                return error;
        puts(b.data);
        return flush();
}
