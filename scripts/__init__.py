"""What make calls besides the kit itself: setting up, and writing environment.yml."""
