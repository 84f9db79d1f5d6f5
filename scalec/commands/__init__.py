"""What the commands of the command line do, one module a command."""
