"""Independent references: arbitrary precision, from the definitions, importing nothing of dprounds."""
