"""What each instruction does: a table opcode -> function, one file per family; load_all imports them all."""
