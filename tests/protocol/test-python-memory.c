/* SPDX-License-Identifier: MIT */

/* The preparation of packages when memory runs out: the n-th allocation fails, for every n that a scenario
 * has. Whatever it is, a submitted run is answered exactly once or refused, nothing crashes, nothing is left
 * of a set that is not complete, and the next run works. The programs are a few lines of shell: there are
 * many n. */

#include "exec-rig.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/timeutil.h"
#include "python/internal.h"
#include "unit/failing-allocations.h"
#include "unit/test.h"

#define LOCK "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char parse_program[] =
        "echo '{\"findings\": [{\"severity\": \"warning\", \"kind\": \"metadata\", \"line\": 1, \"column\": "
        "1, "
        "\"message\": \"Hm.\"}], \"requirements\": [\"a\", \"b\"], \"requires_python\": \"\", "
        "\"interpreter\": 0, "
        "\"interpreter_version\": \"3.13.5\", \"interpreters\": [{\"index\": 0, \"version\": \"3.13.5\"}], "
        "\"has_block\": false, \"n_urls\": 0, \"tool_uv\": {}}'\n";
static const char fetch_program[] = "echo '@ resolving' >&2; echo '{\"lock_sha256\": \"" LOCK
                                    "\", \"is_known\": false, \"packages\": [], "
                                    "\"warnings\": [\"Old.\"]}'\n";
static const char install_program[] =
        "mkdir /env/bin; ln -s /bin/sh /env/bin/python3\n"
        "echo '{\"version\": 1, \"python\": \"/bin/sh\", \"python_version\": \"3.13.5\", \"requirements\": "
        "[\"a\"], "
        "\"lock_sha256\": \"" LOCK
        "\", \"packages\": [{\"name\": \"a\", \"version\": \"1\"}], \"size_bytes\": 1, "
        "\"n_files\": 1, \"console_scripts\": [], \"created_usec\": 1}' > /env/mcp-exec-set.json\n"
        "echo '{}'\n";
static const char remove_program[] = "rm -rf /env/* /env/.[a-z]*; echo '{}'\n";

typedef struct World {
        char directory[64], sets[96], programs[96];
        FakeScript script;
        Rig *rig;
        Python *python;
} World;

static void put(const World *w, const char *name, const char *text) {
        char path[160];
        FILE *f;

        (void) snprintf(path, sizeof(path), "%s/%s", w->programs, name);
        f = fopen(path, "we");
        ASSERT_TRUE(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* The launcher's memory is another matter. */
static int connect_with_memory(void *userdata, char **reterr_message) {
        unsigned n = failing_allocation;
        int fd;

        failing_allocation = 0;
        fd = fake_launcher_connect(userdata, reterr_message);
        failing_allocation = n;
        return fd;
}

static void world_begin(World *w) {
        *w = (World){ .directory = "/tmp/test-python-memory-XXXXXX" };
        ASSERT_TRUE(mkdtemp(w->directory));
        (void) snprintf(w->sets, sizeof(w->sets), "%.60s/sets", w->directory);
        (void) snprintf(w->programs, sizeof(w->programs), "%.60s/programs", w->directory);
        ASSERT_TRUE(mkdir(w->sets, 0755) == 0 && mkdir(w->programs, 0755) == 0);
        put(w, "parse.py", parse_program);
        put(w, "fetch.py", fetch_program);
        put(w, "install.py", install_program);
        put(w, "remove.py", remove_program);
        w->script = (FakeScript){ .python = "/bin/sh", .sets_directory = w->sets, .uv = "/bin/true" };
        w->rig = rig_setup(&w->script);
        ASSERT_EQ_INT(engine_new_with_times(
                              &(const ExecEngineParameters){
                                      .event = w->rig->event,
                                      .settings = w->rig->settings,
                                      .connect = connect_with_memory,
                                      .userdata = w->rig->launcher,
                              },
                              &rig_times, &w->rig->engine),
                      0);
        ASSERT_EQ_INT(python_new(
                              &(const PythonParameters){
                                      .event = w->rig->event,
                                      .settings = w->rig->settings,
                                      .engine = w->rig->engine,
                                      .programs_directory = w->programs,
                                      .state_directory = w->directory,
                              },
                              &w->python),
                      0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) st;
        (void) type;
        (void) ftw;
        return remove(path);
}

static void world_end(World *w) {
        w->python = python_free(w->python);
        rig_teardown(w->rig);
        (void) nftw(w->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static unsigned n_entries(const World *w, size_t n_chars) {
        const struct dirent *e;
        unsigned n = 0;
        DIR *d;

        d = opendir(w->sets);
        ASSERT_TRUE(d);
        while ((e = readdir(d)))
                n += strlen(e->d_name) == n_chars;
        (void) closedir(d);
        return n;
}

typedef struct Outcome {
        unsigned n_done;
        ExecStatus status;
        bool did_run;
} Outcome;

static void on_done(ExecJob *j, const ExecResult *result, void *userdata) {
        Outcome *o = userdata;

        (void) j;
        o->n_done++;
        o->status = result->status;
        o->did_run = result->did_run;
}

static void try_run(World *w, unsigned failing, Outcome *o) {
        static const ExecJobHandlers handlers = { .on_done = on_done };
        ExecRequest *q = rig_request("local", "echo ran", NULL, 5 * USEC_PER_SEC);
        uint64_t end = now_monotonic_usec() + 20 * USEC_PER_SEC;
        char *why = NULL;
        int r;

        *o = (Outcome){};
        has_failed = false;
        failing_allocation = failing;
        r = python_attach(w->python, q,
                          &(const PythonScript){ .text = q->code,
                                                 .text_bytes = q->code_bytes,
                                                 .dependencies = (char *const[]){ (char[]){ "a" }, NULL } });
        if (r == 0)
                r = exec_engine_submit(w->rig->engine, q, &handlers, o, NULL, &why);
        if (r < 0)
                exec_request_free(q);
        while (r == 0 && o->n_done == 0 && now_monotonic_usec() < end)
                if (sd_event_run(w->rig->event, 10 * USEC_PER_MSEC) < 0)
                        break;
        if (r == 0 && o->n_done != 1)
                FAIL("allocation %u: answered %u times", failing, o->n_done);
        failing_allocation = 0;
        free(why);
}

static bool is_idle(const void *data) {
        const World *w = data;

        return python_is_idle(w->python) && w->rig->engine->n_steps == 0 && w->rig->engine->n_active == 0;
}

/* Whatever failed, what comes next works. */
static void assert_works(World *w, unsigned failing) {
        Outcome o;

        ASSERT_TRUE(rig_wait(w->rig, is_idle, w));
        try_run(w, 0, &o);
        if (o.status != EXEC_OK || !o.did_run)
                FAIL("after allocation %u: %s", failing, exec_status_to_string(o.status));
        ASSERT_TRUE(rig_wait(w->rig, is_idle, w));
        ASSERT_EQ_UINT(n_entries(w, 64), 1);
}

TEST(set_is_made_with_allocations_failing) {
        for (unsigned n = 1;; n++) {
                Outcome o;
                World w;

                world_begin(&w);
                try_run(&w, n, &o);
                if (!has_failed) {
                        ASSERT_EQ_INT(o.status, EXEC_OK);
                        ASSERT_TRUE(n > 100);
                        world_end(&w);
                        return;
                }
                assert_works(&w, n);
                world_end(&w);
        }
}

TEST(ready_set_is_used_with_allocations_failing) {
        Outcome o;
        World w;

        world_begin(&w);
        try_run(&w, 0, &o);
        ASSERT_EQ_INT(o.status, EXEC_OK);
        for (unsigned n = 1;; n++) {
                try_run(&w, n, &o);
                if (!has_failed)
                        break;
                assert_works(&w, n);
                ASSERT_EQ_UINT(n_entries(&w, 68), 0);
        }
        ASSERT_EQ_INT(o.status, EXEC_OK);
        world_end(&w);
}
