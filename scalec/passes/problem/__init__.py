"""What a program asks for, as plain data, and how it is read."""
