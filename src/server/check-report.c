/* SPDX-License-Identifier: MIT */

/* Collecting and printing the items of a check. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "base/strv.h"
#include "json/json.h"
#include "server/check-report.h"

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
        CheckItem item = { .verdict = verdict, .name = name }, *items;
        va_list ap;
        int n;

        assert(r);
        assert(name);
        assert(format);

        va_start(ap, format);
        n = vasprintf(&item.detail, format, ap);
        va_end(ap);
        items = reallocarray(r->items, r->n_items + 1, sizeof(*items));
        if (items)
                r->items = items;
        if (n < 0 || !items || str_copy(&item.remedy, remedy) < 0) {
                if (n >= 0)
                        free(item.detail);
                r->is_incomplete = true;
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
        if (str_copy(&item->remedy, remedy) < 0)
                r->is_incomplete = true;
}

bool check_report_has_failed(const CheckReport *r) {
        assert(r);

        for (size_t i = 0; i < r->n_items; i++)
                if (r->items[i].verdict == CHECK_FAIL)
                        return true;
        return r->is_incomplete;
}

void check_report_print_text(const CheckReport *r) {
        assert(r);

        for (size_t i = 0; i < r->n_items; i++) {
                const CheckItem *item = &r->items[i];
                printf("%-4s  %-12s  %s\n", verdict_texts[item->verdict], item->name, item->detail);
                if (item->remedy)
                        printf("%-4s  %-12s  -> %s\n", "", "", item->remedy);
        }
        if (r->is_incomplete)
                puts("FAIL  memory        there was not enough of it to finish the check");
}

int check_report_print_json(const CheckReport *r) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&b);
        int error;

        assert(r);

        json_begin_array(&w);
        for (size_t i = 0; i < r->n_items; i++) {
                const CheckItem *item = &r->items[i];

                json_begin_object(&w);
                json_key(&w, "name");
                json_string(&w, item->name);
                json_key(&w, "verdict");
                json_string(&w, item->verdict == CHECK_FAIL ? "fail" : verdict_texts[item->verdict]);
                json_key(&w, "detail");
                json_string(&w, item->detail);
                json_key(&w, "remedy");
                json_string(&w, item->remedy);
                json_end_object(&w);
        }
        json_end_array(&w);
        error = json_writer_finish(&w);
        if (error < 0)
                return error;
        if (r->is_incomplete)
                return -ENOMEM;
        puts(b.data);
        return 0;
}
