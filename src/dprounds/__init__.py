"""How many rounds may I train under this privacy budget?"""
