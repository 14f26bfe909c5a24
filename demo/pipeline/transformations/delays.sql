CREATE MATERIALIZED VIEW delays
TBLPROPERTIES ('firn.primary-key' = 'carrier, day, weather', 'firn.refresh' = 'incremental')
AS SELECT f.carrier, make_date(f.year, f.month, f.day) AS day,
          CASE WHEN w.precip > 0 THEN 'rain' WHEN w.visib < 3 THEN 'fog' ELSE 'dry' END AS weather,
          count(*) AS flights, count(f.dep_time) AS departed, sum(f.dep_delay) AS minutes
   FROM flights f LEFT JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
   GROUP BY ALL;
