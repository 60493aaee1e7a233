"""The demo: a year of real flights, played into a board."""
