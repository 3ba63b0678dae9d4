/* SPDX-License-Identifier: MIT */

#include "exec/result.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/strv.h"
#include "exec/size-text.h"
#include "runner/checks.h"

#define RUNNER_EXIT_CHECK_BASE 100 /* the runner's exit status 100 + n: its check n failed */
#define RUNNER_EXIT_CHECK_LAST 199
#define CODE_EXITED 1 /* ExecMainCode: CLD_EXITED, CLD_KILLED, CLD_DUMPED */
#define CODE_KILLED 2
#define CODE_DUMPED 3

/* What systemd was doing when a unit ended before its runner, by the exit statuses of systemd.exec(5). */
static const struct {
        int status;
        const char *what;
} start_failures[] = {
        { 200, "enter the working directory of the sandbox" },
        { 203, "execute the first program of the sandbox (check Python= in mcp-exec.conf)" },
        { 213, "give up the capabilities of the sandbox" },
        { 217, "make a user for the sandbox (DynamicUser= or PrivateUsers=)" },
        { 218, "give up the capabilities of the sandbox" },
        { 219, "make a control group for the sandbox" },
        { 225, "make a network namespace for the sandbox" },
        /* Before 257 DynamicUser= makes directories below the host's /tmp and /var/tmp. */
        { 226, "set up the namespaces of the sandbox (a mount, user namespaces that this system forbids, or "
               "a full disk below /tmp or /var/tmp)" },
        { 228, "set up the system call filter of the sandbox" },
};

static const struct {
        int signal;
        const char *meaning;
} signal_meanings[] = {
        { SIGSEGV, "invalid memory access" },
        { SIGBUS, "invalid memory access or no space for mapped memory" },
        { SIGABRT, "the program aborted itself" },
        { SIGFPE, "arithmetic error" },
        { SIGILL, "illegal instruction" },
        { SIGKILL, "by the program itself or by an administrator" },
        { SIGSYS, "forbidden system call" },
};

const char* result_signal_name(int signal, char buffer[static 32]) {
        const char *name = sigabbrev_np(signal);

        if (name)
                (void) snprintf(buffer, 32, "SIG%s", name);
        else
                (void) snprintf(buffer, 32, "signal %d", signal);
        return buffer;
}

/* The sentence for a call that failed on our side, said in the administrator's terms. */
static void blame_sandbox(ExecResult *r, const char *format, ...) _printf_(2, 3);

static void blame_sandbox(ExecResult *r, const char *format, ...) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        va_list ap;

        if (buffer_append_str(&b, "This is not the program's fault. ") < 0)
                return;
        va_start(ap, format);
        if (buffer_vprintf(&b, format, ap) >= 0)
                (void) buffer_steal(&b, &r->message, NULL);
        va_end(ap);
}

static void blame_check(ExecResult *r, uint32_t number) {
        static const struct {
                uint32_t number;
                const char *sentence, *remedy;
        } checks[] = {
#define ROW(number, name, sentence, remedy) { number, sentence, remedy },
                RUNNER_CHECKS(ROW)
#undef ROW
        };

        for (size_t i = 0; i < ELEMENTSOF(checks); i++)
                if (checks[i].number == number) {
                        blame_sandbox(r, "The sandbox is not what it must be, so the program was not run: "
                                         "%s (check %" PRIu32 "). Administrators: %s",
                                      checks[i].sentence, number, checks[i].remedy);
                        return;
                }
        blame_sandbox(r, "The sandbox is not what it must be (check %" PRIu32 " failed inside it), so the "
                         "program was not run. Administrators: run mcp-exec check.", number);
}

/* The check that failed inside the sandbox, or 0: said on the control socket, or by the exit status
 * alone. */
static uint32_t failed_check(const ResultFacts *f) {
        const WireFinished *m = f->finished;

        if (f->fault == UNIT_FAULT_CHECK)
                return f->failed_check;
        if (f->fate == UNIT_FATE_FINISHED && m->main_code == CODE_EXITED &&
            m->main_status > RUNNER_EXIT_CHECK_BASE && m->main_status <= RUNNER_EXIT_CHECK_LAST)
                return (uint32_t) (m->main_status - RUNNER_EXIT_CHECK_BASE);
        return 0;
}

/* Nobody told that it ended, but a program that our kill had ended would have held its streams until then:
 * the launcher or its bus is stuck, and time that the program did not use must not be held against it. */
static bool is_unreported_end(const ResultFacts *f) {
        return f->reason == JOB_REASON_TIMEOUT && f->fate == UNIT_FATE_NONE && f->had_ended_silently;
}

/* The launcher that a server starts for itself writes where the server does. */
static const char* launcher_log(void) {
        return log_place("the journal (journalctl -u mcp-exec-launcher)");
}

/* The program ran, and how it ended will never be known. */
static void judge_lost(const ResultFacts *f, ExecResult *r) {
        if (f->fate == UNIT_FATE_LOST)
                blame_sandbox(r, "The launcher ended or lost its connection while the program ran, so how "
                                 "it ended is not known. Run it again; administrators find the cause in "
                                 "%s.", launcher_log());
        else if (is_unreported_end(f))
                blame_sandbox(r, "Its output had ended before the time limit, but the launcher has not "
                                 "reported how the program ended. Run it again; administrators find the "
                                 "cause in %s.", launcher_log());
        else if (f->fault == UNIT_FAULT_OUTPUT)
                blame_sandbox(r, "Its output could not be collected, for the daemon is short of memory. "
                              "Run it again later.");
        else
                blame_sandbox(r, "Its unit vanished from the service manager while it ran, so how it ended "
                                 "is not known. Run it again.");
}

/* One that was far from its own limit met with that of all programs together, or with the machine's. */
static void judge_memory(const ResultFacts *f, ExecResult *r) {
        uint64_t limit = f->hint_facts.memory_max_bytes, peak = f->finished->memory_peak_bytes;

        if (peak > 0 && peak < limit / 8 * 7) /* unknown is far above */
                (void) str_printf(&r->message,
                                  "The program was killed for want of memory when it used %s. Its own limit "
                                  "is %s, so all programs together reached theirs, or the machine has no "
                                  "more: try again later, or process the data in smaller pieces. "
                                  "Administrators: see MemoryMax= of mcp-exec.slice.",
                                  size_text_bytes(peak / MIB * MIB).text, size_text_bytes(limit).text);
        else
                (void) str_printf(&r->message,
                                  "The program was killed because it used more memory than its limit of %s: "
                                  "process the data in smaller pieces.", size_text_bytes(limit).text);
}

/* The unit ended by itself before it took the program. */
static void judge_unstarted(const WireFinished *m, ExecResult *r) {
        static const char advice[] = "Administrators: run mcp-exec check.";

        if (m->result == WIRE_RESULT_OOM_KILL) {
                blame_sandbox(r, "The sandbox ran out of memory before the program started. Administrators: "
                                 "raise MemoryMax= in mcp-exec.conf.");
                return;
        }
        if (m->result == WIRE_RESULT_GONE) {
                blame_sandbox(r, "Its unit vanished from the service manager before it started. Run it "
                                 "again.");
                return;
        }
        if (m->main_code == CODE_EXITED)
                for (size_t i = 0; i < ELEMENTSOF(start_failures); i++)
                        if (start_failures[i].status == m->main_status) {
                                blame_sandbox(r, "systemd could not %s. %s", start_failures[i].what, advice);
                                return;
                        }
        blame_sandbox(r, "The sandbox ended before the program started (result %s, %s %" PRIi32 "). %s",
                      wire_result_to_string((WireResult) m->result),
                      m->main_code == CODE_EXITED ? "exit status" : "signal", m->main_status, advice);
}

static void judge_failure(const ResultFacts *f, ExecResult *r) {
        r->status = EXEC_INFRA_ERROR;
        r->exit_code = -1;

        if (f->explanation)
                blame_sandbox(r, "%s", f->explanation);
        else if (f->is_sent)
                judge_lost(f, r);
        else if (f->fate == UNIT_FATE_REFUSED)
                blame_sandbox(r, "The launcher refused to start it. %s%s%s",
                              f->refusal ?: "Why, is in ", f->refusal ? "" : launcher_log(),
                              f->refusal ? "" : ".");
        else if (f->fate == UNIT_FATE_LOST)
                blame_sandbox(r, "The launcher ended or lost its connection before the program started. Run "
                                 "it again; administrators find the cause in %s.", launcher_log());
        else if (failed_check(f) > 0)
                blame_check(r, failed_check(f));
        else if (f->fault == UNIT_FAULT_PROTOCOL)
                blame_sandbox(r, "The runner inside the sandbox and the daemon do not understand each "
                                 "other. Administrators: install both from one package.");
        else if (f->fate != UNIT_FATE_FINISHED ||
                 (f->fault != UNIT_FAULT_NONE && f->finished->main_code != CODE_EXITED)) /* we killed it */
                blame_sandbox(r, "The sandbox was not ready in time; the machine may be overloaded. Run it "
                                 "again later.");
        else
                judge_unstarted(f->finished, r);
}

static void judge_error(const ResultFacts *f, ExecResult *r) {
        _cleanup_free_ char *cause = NULL;

        if (hints_from_stderr(f->err, &f->hint_facts, &cause, &r->hints) < 0)
                return;

        if (r->status == EXEC_SIGNAL) {
                const char *meaning = NULL;
                char name[32];

                for (size_t i = 0; i < ELEMENTSOF(signal_meanings); i++)
                        if (signal_meanings[i].signal == r->signal)
                                meaning = signal_meanings[i].meaning;
                (void) str_printf(&r->message, "The program was killed by %s%s%s%s.%s%s",
                                  result_signal_name(r->signal, name), meaning ? " (" : "", meaning ?: "",
                                  meaning ? ")" : "", cause ? " " : "", cause ?: "");
        } else
                (void) str_printf(&r->message, "The program ended with exit status %d%s%s%s", r->exit_code,
                                  !cause && f->err->n_total > 0 ? "; see stderr." : ".", cause ? " " : "",
                                  cause ?: "");
}

/* What systemd says of the main process, and in user mode init of its child. */
static void judge_process(const ResultFacts *f, ExecResult *r) {
        const WireFinished *m = f->finished;

        if (m->main_code == CODE_KILLED || m->main_code == CODE_DUMPED) {
                r->signal = m->main_status;
                r->exit_code = 128 + m->main_status;
                return;
        }

        /* init ends with 128 + n when its child was killed by n; its word tells that from the exit status
         * 128 + n. It is believed only where it fits to what systemd saw. */
        r->exit_code = m->main_status;
        if (f->has_status && f->status > CONTROL_STATUS_SIGNAL &&
            m->main_status == 128 + (f->status - CONTROL_STATUS_SIGNAL))
                r->signal = f->status - CONTROL_STATUS_SIGNAL;
}

static void judge_finished(const ResultFacts *f, ExecResult *r) {
        const WireFinished *m = f->finished;

        if (m->result == WIRE_RESULT_GONE || (m->main_code == 0 && m->result != WIRE_RESULT_TIMEOUT)) {
                judge_failure(f, r);
                return;
        }

        judge_process(f, r);

        /* Only RuntimeMaxSec= ends like this, the backstop behind our own timer. */
        if (m->result == WIRE_RESULT_TIMEOUT) {
                r->status = EXEC_TIMEOUT;
                r->exit_code = -1;
                r->signal = 0;
        } else if (r->signal > 0) {
                r->status = EXEC_SIGNAL;
                judge_error(f, r);
        } else if (m->result == WIRE_RESULT_SUCCESS && m->main_status == 0)
                r->status = EXEC_OK;
        else {
                r->status = EXEC_ERROR;
                judge_error(f, r);
        }
}

/* A program that catches the refusal and goes on has nothing on its stderr that would tell. */
static void tell_tasks(const ResultFacts *f, Buffer *b) {
        if (f->has_met_tasks_max && f->hint_facts.tasks_max > 0)
                (void) buffer_printf(b, " It also met its limit of %" PRIu64 " tasks (processes and "
                                        "threads).", f->hint_facts.tasks_max);
}

static void tell_timeout(const ResultFacts *f, ExecResult *r) {
        SizeText limit = size_text_usec(f->timeout_usec), max = size_text_usec(f->max_timeout_usec);
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        char asked[64] = "";
        int e;

        if (f->asked_timeout_sec > f->timeout_usec / USEC_PER_SEC)
                (void) snprintf(asked, sizeof(asked), " (%" PRIu64 " s were asked for)",
                                f->asked_timeout_sec);
        if (f->timeout_usec < f->max_timeout_usec)
                e = buffer_printf(&b, "The program was stopped at its time limit of %s; what it had printed "
                                      "until then is shown. Let it do less, or ask for more time (at most "
                                      "%s).", limit.text, max.text);
        else
                e = buffer_printf(&b, "The program was stopped at its time limit of %s, the longest there "
                                      "is%s; what it had printed until then is shown. Let it do less.",
                                  limit.text, asked);
        if (e < 0)
                return;
        tell_tasks(f, &b);
        (void) buffer_steal(&b, &r->message, NULL);
}

/* The order is the point: what systemd saw the kernel do comes first, then what we did ourselves, then the
 * rest. */
void result_judge(const ResultFacts *f, ExecResult *r) {
        bool is_finished;

        assert(f);
        assert(f->err);
        assert(r);

        is_finished = f->fate == UNIT_FATE_FINISHED;
        r->did_run = f->is_sent;
        r->exit_code = -1;
        r->signal = 0;

        if (f->is_sent && is_finished && f->finished->result == WIRE_RESULT_OOM_KILL) {
                judge_process(f, r);
                if (f->finished->main_code == 0) { /* see on_record() of the launcher's job.c */
                        r->signal = SIGKILL;
                        r->exit_code = 128 + SIGKILL;
                }
                r->status = EXEC_OOM;
                judge_memory(f, r);
        } else if (f->reason == JOB_REASON_CANCELLED) {
                r->status = EXEC_CANCELLED;
                (void) str_printf(&r->message, "The run was cancelled%s.",
                                  f->is_sent ? "" : " before the program started");
        } else if (f->reason == JOB_REASON_TIMEOUT && f->is_sent && !is_unreported_end(f))
                r->status = EXEC_TIMEOUT;
        else if (f->reason == JOB_REASON_OUTPUT_LIMIT) {
                r->status = EXEC_OUTPUT_LIMIT;
                (void) str_printf(&r->message, "The program was stopped because it wrote more than %s to "
                                               "one stream; the begin and the end of it are shown. Print "
                                               "less, or a summary.",
                                  size_text_bytes(f->output_limit_bytes).text);
        } else if (f->reason == JOB_REASON_UNPREPARED) {
                r->status = f->unprepared_status;
                r->is_unprepared = true;
                (void) str_copy(&r->message, f->explanation);
        } else if (f->reason == JOB_REASON_FAILED || !f->is_sent || !is_finished)
                judge_failure(f, r);
        else
                judge_finished(f, r);

        if (r->status == EXEC_TIMEOUT)
                tell_timeout(f, r);
}
