/* SPDX-License-Identifier: MIT */

/* Which job stands where: in the queue, with a slot, waiting for packages; and the steps that make packages,
 * which have units but no slots. */

#include "exec/engine.h"

void engine_release(ExecEngine *e, ExecJob *j) {
        if (!j->has_slot)
                return;
        if (job_is_step(j)) {
                LIST_REMOVE(&e->steps, active, j);
                e->n_steps--;
        } else {
                LIST_REMOVE(&e->active, active, j);
                e->n_active--;
        }
        j->has_slot = false;
}

void engine_occupy(ExecEngine *e, ExecJob *j) {
        if (job_is_step(j)) {
                LIST_APPEND(&e->steps, active, j);
                e->n_steps++;
        } else {
                LIST_APPEND(&e->active, active, j);
                e->n_active++;
        }
        j->has_slot = true;
}

void engine_leave_preparing(ExecEngine *e, ExecJob *j) {
        LIST_REMOVE(&e->preparing, waiting, j);
        e->n_preparing--;
}

void engine_leave_queue(ExecEngine *e, ExecJob *j) {
        if (job_is_step(j))
                LIST_REMOVE(&e->steps_waiting, waiting, j);
        else
                queue_remove(&e->queue, &j->queue_item);
}

void engine_requeue(ExecEngine *e, ExecJob *j) {
        /* The unit's callback is still on the stack: the unit is freed when the job starts again. */
        if (job_is_step(j))
                LIST_PREPEND(&e->steps_waiting, waiting, j);
        else if (queue_push_front(&e->queue, j->request->principal, &j->queue_item) < 0) {
                job_fail(j, "The daemon is out of memory. Run it again later.");
                return;
        }
        engine_release(e, j);
        job_set_state(j, JOB_QUEUED);
        engine_update_soon(e);
}

void engine_fail_queued(ExecEngine *e, const char *explanation) {
        QueueItem *item;
        ExecJob *j;

        while ((item = queue_pop(&e->queue)))
                job_fail(job_of_queue_item(item), explanation);
        while ((j = e->steps_waiting.first)) {
                LIST_REMOVE(&e->steps_waiting, waiting, j);
                job_fail(j, explanation);
        }
}

int engine_line_up(ExecEngine *e, const ExecRequest *request, ExecJob *j) {
        if (request->preparation.ops) {
                LIST_APPEND(&e->preparing, waiting, j);
                e->n_preparing++;
        } else if (request->profile != WIRE_PROFILE_RUN)
                LIST_APPEND(&e->steps_waiting, waiting, j);
        else
                return queue_push(&e->queue, request->principal, &j->queue_item);
        return 0;
}

static void engine_free_dead(ExecEngine *e, ExecJob *first) {
        for (ExecJob *j = first, *next; j; j = next) {
                next = j->active.next;
                if (j->state != JOB_LINGERING || j->unit->state != UNIT_DEAD)
                        continue;
                engine_release(e, j);
                job_free(j);
        }
}

void engine_update_lingering(ExecEngine *e) {
        engine_free_dead(e, e->active.first);
        engine_free_dead(e, e->steps.first);
}
