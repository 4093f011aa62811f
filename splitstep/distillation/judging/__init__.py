"""How good a student is: bits per byte, ROUGE-L of its answers, agreement with the teacher, distance of states."""
