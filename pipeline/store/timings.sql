-- Every number with the launch that it came from.
CREATE VIEW timings AS
  WITH l AS (SELECT *, CASE WHEN json_valid(outcome) THEN outcome END AS document FROM launches)
  SELECT l.session, l.seq, l.commit_id, l.candidate, l.purpose, l.ordinal, l.class, l.phase, l.started, l.wall_s,
         json_extract(s.value, '$.metric') AS metric, coalesce(json_extract(s.value, '$.case'), '') AS case_name,
         CAST(v.value AS REAL) AS value, json_extract(s.value, '$.unit') AS unit
  FROM l, json_each(l.document, '$.series') s, json_each(s.value, '$.values') v
  UNION ALL
  SELECT l.session, l.seq, l.commit_id, l.candidate, l.purpose, l.ordinal, l.class, l.phase, l.started, l.wall_s,
         'phase.' || json_extract(p.value, '$.name'), '', CAST(json_extract(p.value, '$.seconds') AS REAL), 's'
  FROM l, json_each(l.document, '$.phases') p;
