"""The JobMaster machine: the life of a job, from deployment through failures and restores to its end."""
