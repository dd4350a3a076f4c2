"""What every process needs: options, logging, signals, daemon control."""
