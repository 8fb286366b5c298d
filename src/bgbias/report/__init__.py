"""Words and pictures: printed names, tables, figures, pages."""
