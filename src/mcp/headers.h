/* SPDX-License-Identifier: MIT */
#pragma once

/* Values of HTTP headers that repeat what the body says. */

/* Compares after trimming white space and undoing "=?base64?…?=", exactly otherwise. Returns 1 when equal,
 * 0 when not, -EBADMSG when there is no valid base64 between both markers, or -ENOMEM. */
int mcp_header_equal(const char *header, const char *body);
