"""The widgets that stand alone: the stepper, the space-time diagram, the monitor, the planner, a prediction."""
