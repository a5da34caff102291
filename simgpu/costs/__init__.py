"""What ops and transfers cost: device physics, no schedules."""
