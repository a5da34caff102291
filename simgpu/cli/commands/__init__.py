"""The commands: their options, whose types double as help. What each does is imported when it is called."""
