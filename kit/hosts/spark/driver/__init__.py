"""The driver: it runs the JobMaster and starts the slots, epoch after epoch."""
