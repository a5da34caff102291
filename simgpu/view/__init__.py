"""Figures and the HTML page: pure functions of Reports. The only layer that imports plotly, and only when it draws."""
