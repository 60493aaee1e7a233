"""All resources on one page: what was wanted, what is measured here, and what it is compared with."""
