"""Maps: the skyline and the top-k around a place, and how far one may go before they change."""
