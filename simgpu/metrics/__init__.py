"""Timeline to numbers; nothing here draws."""
