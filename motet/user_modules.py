"""What modules are called that an experiment imports from a user's file; here, so that the command line imports no torch."""

USERS = "motet_user_"
