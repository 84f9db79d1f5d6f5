"""From a problem and a full schedule to a kernel in `tile`; nothing is decided here."""
