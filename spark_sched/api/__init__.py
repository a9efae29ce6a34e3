"""What users import: marking a job, asking before one is submitted."""
