"""The stage: the job at one moment as a picture, and a whole run as a film."""
