"""Early warnings: rows that a check will call failing, counted by the stream while it lands them. Advisory, always.

A run tells the drivers which checks of a table decide row by row (`counted`); a driver counts by them while it writes a
batch (`conditions`, `driver.landing.counting`); what no check has decided yet is shown (`standing`). Nothing here makes
a verdict, moves `verified`, or imports Great Expectations. See docs/adr/0062.
"""
