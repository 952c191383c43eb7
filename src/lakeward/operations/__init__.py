"""Operations on a stream or a table: plan, approval, apply, record."""
