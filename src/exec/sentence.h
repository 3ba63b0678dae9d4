/* SPDX-License-Identifier: MIT */
#pragma once

/* Reason and remedy, as the launcher tells them, as text for a client. */

/* "REASON. REMEDY." with exactly one full stop after each; remedy may be empty. Returns 0 or -ENOMEM. */
int sentence_join(const char *reason, const char *remedy, char **ret);
