/* SPDX-License-Identifier: MIT */
#pragma once

/* A dead unit's record: what systemd knows about its end. */

#include <systemd/sd-bus.h>

#include "wire/wire.h"

/* Reads the answer to GetAll of the service interface. What it does not mention stays as it is. */
int record_read(sd_bus_message *m, WireFinished *f);
