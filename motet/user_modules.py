"""What modules are called that an experiment imports from a user's file; apart, so that `--help` needs no torch."""

USERS = "motet_user_"
