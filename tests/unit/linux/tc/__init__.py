"""Traffic control as values and text."""
