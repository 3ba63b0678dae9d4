/* SPDX-License-Identifier: MIT */

#include "python-rig.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static PythonRig the_rig;

static void need(bool is_fine) {
        if (!is_fine)
                abort();
}

static void link_program(const PythonRig *r, const char *from, const char *name) {
        char source[512], target[256];

        (void) snprintf(source, sizeof(source), "%s/%s", from, name);
        (void) snprintf(target, sizeof(target), "%s/%s", r->programs, name);
        need(symlink(source, target) == 0);
}

/* It only tells its version; what it would do is played. */
static void write_uv(PythonRig *r) {
        FILE *f;

        (void) snprintf(r->uv, sizeof(r->uv), "%.60s/uv", r->directory);
        f = fopen(r->uv, "we");
        need(f);
        need(fputs("#!/bin/sh\necho uv 0.13.9\n", f) >= 0 && fchmod(fileno(f), 0755) == 0);
        need(fclose(f) == 0);
}

PythonRig* python_rig_setup(void) {
        PythonRig *r = &the_rig;

        if (r->rig)
                python_rig_teardown(r);
        (void) snprintf(r->directory, sizeof(r->directory), "/tmp/test-python-XXXXXX");
        need(mkdtemp(r->directory));
        (void) snprintf(r->sets, sizeof(r->sets), "%.60s/sets", r->directory);
        (void) snprintf(r->state, sizeof(r->state), "%.60s/state", r->directory);
        (void) snprintf(r->programs, sizeof(r->programs), "%.60s/programs", r->directory);
        need(mkdir(r->sets, 0755) == 0 && mkdir(r->state, 0755) == 0 && mkdir(r->programs, 0755) == 0);
        link_program(r, PREPARE_DIRECTORY, "parse.py");
        link_program(r, PREPARE_DIRECTORY, "versions.py");
        link_program(r, PREPARE_DIRECTORY, "remove.py");
        link_program(r, FAKE_PREPARE_DIRECTORY, "fetch.py");
        link_program(r, FAKE_PREPARE_DIRECTORY, "install.py");
        write_uv(r);

        r->script = (FakeScript){
                .interpreter = PYTHON_PATH,
                .python = PYTHON_PATH,
                .sets_directory = r->sets,
                .uv = r->uv,
        };
        r->rig = rig_setup(&r->script);
        return r;
}

void python_rig_start(PythonRig *r) {
        need(python_new(
                     &(const PythonParameters){
                             .event = r->rig->event,
                             .settings = r->rig->settings,
                             .engine = rig_engine(r->rig),
                             .programs_directory = r->programs,
                             .state_directory = r->state,
                     },
                     &r->python) >= 0);
}

void python_rig_start_as_scripted(PythonRig *r) {
        r->rig->launcher = fake_launcher_free(r->rig->launcher);
        r->rig->launcher = fake_launcher_new(&r->script);
        python_rig_start(r);
}

void python_rig_restart(PythonRig *r) {
        r->python = python_free(r->python);
        r->rig->engine = exec_engine_free(r->rig->engine);
        python_rig_start(r);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) st;
        (void) type;
        (void) ftw;
        return remove(path);
}

void python_rig_teardown(PythonRig *r) {
        r->python = python_free(r->python);
        rig_teardown(r->rig);
        (void) nftw(r->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        *r = (PythonRig){};
}

void python_rig_submit_as(PythonRig *r, Run *run, const char *principal, const char *requirements) {
        ExecRequest *q = rig_request(principal, "print('ran')", NULL, 10 * USEC_PER_SEC);
        _cleanup_strv_ char **l = NULL;
        char message[512];
        bool has_version;

        need(strv_split(requirements, &l) >= 0);
        has_version = l && l[0] && strncmp(l[0], "python=", 7) == 0;
        need(python_attach(r->python, q,
                           &(const PythonScript){
                                   .text = q->code,
                                   .text_bytes = q->code_bytes,
                                   .dependencies = has_version ? l + 1 : l,
                                   .python_version = has_version ? l[0] + 7 : NULL,
                           }) >= 0);
        need(rig_submit_request(r->rig, run, q, message) == 0);
}

void python_rig_submit(PythonRig *r, Run *run, const char *requirements) {
        python_rig_submit_as(r, run, "local", requirements);
}

void python_rig_run(PythonRig *r, Run *run, const char *requirements) {
        python_rig_submit(r, run, requirements);
        need(rig_wait_done(r->rig, run));
}

static bool is_idle(const void *data) {
        const PythonRig *r = data;

        return python_is_idle(r->python) && r->rig->engine->n_steps == 0 && r->rig->engine->n_active == 0;
}

bool python_rig_wait_idle(PythonRig *r) {
        return rig_wait(r->rig, is_idle, r);
}

static unsigned count(const PythonRig *r, size_t n_chars) {
        const struct dirent *e;
        unsigned n = 0;
        DIR *d;

        d = opendir(r->sets);
        need(d);
        while ((e = readdir(d)))
                n += strlen(e->d_name) == n_chars;
        (void) closedir(d);
        return n;
}

unsigned python_rig_n_sets(const PythonRig *r) {
        return count(r, 64);
}

unsigned python_rig_n_leaves(const PythonRig *r) {
        return count(r, 68);
}

unsigned python_rig_n_prepared(const PythonRig *r) {
        return fake_launcher_report(r->rig->launcher)->n_prepared;
}
