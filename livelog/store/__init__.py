"""Store: a session's folder, in which nothing that anybody was told of is ever lost.

It is the same for sessions in one process and over Spark. From the bottom up:

- `layout`: where things are, how files get there whole, who may write;
- `records`: files of checksummed records, with a torn end told from damage;
- `formats`: what the records and the other files hold, as types;
- `parts`: the facts of a relation in a checkpoint, as Parquet;
- `changefile`: what every transaction changed in a view;
- `marks`: files with the number of a transaction, written over again and again;
- `witnesses`: what knows of a transaction beside the log;
- `recovery` reads where a session stands, `sweep` removes what nobody needs any more;
- `journal` is all of it under one name: the log and the checkpoints of a session that is open. `flusher` is the thread
  that writes what has gathered in it;
- `followers` read changes, in this process or in another one, each transaction once.

Nothing in here knows of operators, plans or runtimes.
"""
