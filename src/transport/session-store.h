/* SPDX-License-Identifier: MIT */
#pragma once

/* SessionStore: what outlives the process of HTTP sessions: the key that their ids are signed with, and
 * which of them were DELETEd before their time. Shared by all listeners.
 *
 *   DIRECTORY/session-key      random, made at the first start
 *   DIRECTORY/ended-sessions   see ended-sessions.h
 *
 * Where the directory cannot be used (none, a full disk), the key follows from the machine id, and what was
 * DELETEd is known until the process ends. Where only the list cannot be written, the key is removed: after
 * a restart no id of before is known, rather than one that was DELETEd. */

#include <stdbool.h>

#include "base/digest.h"
#include "base/macro.h"
#include "base/settings.h"

#define SESSION_ID_CHARS 64

typedef struct SessionStore SessionStore;

/* directory NULL: none. Its failures are logged, once, and are none of the caller's. */
int session_store_new(const char *directory, const Settings *settings, SessionStore **ret);
SessionStore* session_store_free(SessionStore *s);
DEFINE_CLEANUP(SessionStore*, session_store_free);

/* SHA256_HEX_CHARS characters. */
const char* session_store_key(const SessionStore *s);

/* id: SESSION_ID_CHARS lower-case hex digits, the first 8 of which say when it expires, signed by us. */
bool session_store_is_ended(const SessionStore *s, const char *principal, const char *id);
void session_store_end(SessionStore *s, const char *principal, const char *id);
