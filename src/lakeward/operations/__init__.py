"""What a person does to a stream or a table: plan, approval, apply, record."""
